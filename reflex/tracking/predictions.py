"""Item-level predictions as Parquet: a fixed schema and the same bytes for the same rows."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from reflex.errors import RecordError, brief
from reflex.tracking.record import PREDICTIONS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_REPEATING = (
    *("item_id", "question_id", "type", "source", "family", "split", "group", "gold", "readout"),
    *("bucket", "state_tokens", "question_tokens", "described"),
    *("keys.list.element", "target.list.element", "order_keys.list.element.list.element"),
)
_MEASURED = (
    *("scores.list.element.list.element", "order_probabilities.list.element.list.element"),
    "probabilities.list.element",
)


@cache
def schema() -> pa.Schema:
    """One row per item × question. `gold`: -1 where the label has no unique top; `bucket` may be
    null.
    """
    # pandas and pyarrow are imported where they are used: composing a config lists this room.
    import pyarrow as pa

    strings, numbers = pa.list_(pa.string()), pa.list_(pa.float64())
    return pa.schema(
        [
            ("item_id", pa.string()),
            ("question_id", pa.string()),
            ("type", pa.string()),
            ("source", pa.string()),
            ("family", pa.string()),
            ("split", pa.string()),
            ("group", pa.string()),
            ("keys", strings),
            ("target", numbers),
            ("gold", pa.int64()),
            ("readout", pa.string()),
            ("order_keys", pa.list_(strings)),
            ("scores", pa.list_(numbers)),
            ("order_probabilities", pa.list_(numbers)),
            ("probabilities", numbers),
            ("bucket", pa.string()),
            ("state_tokens", pa.int64()),
            ("question_tokens", pa.int64()),
            ("described", pa.bool_()),
        ]
    )


def predictions_bytes(predictions: pd.DataFrame) -> bytes:
    """The Parquet file of a Predictions frame: row order kept, columns in schema order, others
    after by name.

    Nothing that varies between identical runs goes in. Raises RecordError for a missing column or a
    value of another type.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = schema()
    missing = [name for name in columns.names if name not in predictions.columns]
    if missing:
        raise RecordError(f"predictions: column {', '.join(map(repr, missing))} is missing")
    extra = sorted(str(name) for name in predictions.columns if name not in columns.names)
    try:
        table = pa.Table.from_arrays(
            [pa.array(predictions[field.name].tolist(), type=field.type) for field in columns]
            # A column that not every row has: NaN stands for nothing.
            + [pa.array(predictions[name].tolist(), from_pandas=True) for name in extra],
            names=[*columns.names, *extra],
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise RecordError(
            f"predictions: a value does not fit the schema: {brief(error)}"
        ) from error
    # Doubles split into byte planes pack a third smaller; the other columns repeat themselves.
    pq.write_table(
        table,
        sink := pa.BufferOutputStream(),
        compression="zstd",
        compression_level=9,
        use_dictionary=[*_REPEATING, *extra],
        use_byte_stream_split=list(_MEASURED),
    )
    return bytes(sink.getvalue().to_pybytes())


def read_predictions(path: Path) -> pd.DataFrame:
    """Predictions of a run folder or a Parquet file. Raises RecordError naming the file and the
    fix.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = path / PREDICTIONS if path.is_dir() else path
    try:
        # pandas first turns nested lists into object arrays; plain lists are what the metrics take.
        table = pq.read_table(file)
        return pd.DataFrame(table.to_pydict())
    except (OSError, pa.ArrowInvalid) as error:
        raise RecordError(
            f"{file}: cannot be read ({brief(error)}); run the cell again with force=true"
        ) from error
