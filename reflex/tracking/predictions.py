"""Item-level predictions as Parquet: a fixed schema and the same bytes for the same rows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from reflex.errors import RecordError

SCHEMA = pa.schema(
    [
        ("item_id", pa.string()),
        ("question_id", pa.string()),
        ("type", pa.string()),
        ("source", pa.string()),
        ("family", pa.string()),
        ("split", pa.string()),
        ("group", pa.string()),
        ("keys", pa.list_(pa.string())),
        ("target", pa.list_(pa.float64())),
        ("gold", pa.int64()),
        ("readout", pa.string()),
        ("order_keys", pa.list_(pa.list_(pa.string()))),
        ("scores", pa.list_(pa.list_(pa.float64()))),
        ("order_probabilities", pa.list_(pa.list_(pa.float64()))),
        ("probabilities", pa.list_(pa.float64())),
        ("bucket", pa.string()),
        ("state_tokens", pa.int64()),
        ("question_tokens", pa.int64()),
        ("described", pa.bool_()),
    ]
)
"""One row per item × question. `gold` is -1 where the label has no unique top; `bucket` may be
null.
"""


def predictions_bytes(predictions: pd.DataFrame) -> bytes:
    """The Parquet file of a Predictions frame: row order kept, columns in schema order, others
    after by name.

    Nothing that varies between identical runs goes in. Raises RecordError for a missing column or a
    value of another type.
    """
    missing = [name for name in SCHEMA.names if name not in predictions.columns]
    if missing:
        raise RecordError(f"predictions: column {', '.join(map(repr, missing))} is missing")
    extra = sorted(str(name) for name in predictions.columns if name not in SCHEMA.names)
    try:
        table = pa.Table.from_arrays(
            [pa.array(predictions[field.name].tolist(), type=field.type) for field in SCHEMA]
            + [pa.array(predictions[name].tolist()) for name in extra],
            names=[*SCHEMA.names, *extra],
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise RecordError(
            f"predictions: a value does not fit the schema: {_first(error)}"
        ) from error
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", compression_level=9)
    return bytes(sink.getvalue().to_pybytes())


def read_predictions(path: Path) -> pd.DataFrame:
    """Predictions of a run folder or a Parquet file. Raises RecordError naming the file and the
    fix.
    """
    file = path / "predictions.parquet" if path.is_dir() else path
    try:
        # pandas first turns nested lists into object arrays; plain lists are what the metrics take.
        table = pq.read_table(file)
        return pd.DataFrame(table.to_pydict())
    except (OSError, pa.ArrowInvalid) as error:
        raise RecordError(
            f"{file}: cannot be read ({_first(error)}); run the cell again with force=true"
        ) from error


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
