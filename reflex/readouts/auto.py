"""`auto`: the router. Label tokens while every option can have a single-token label, else the head of the run.

It scores nothing itself: `route` names the readout that does, and why; both are told with every answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reflex.contract import Question, option_keys
from reflex.errors import ConfigError
from reflex.readouts import base

if TYPE_CHECKING:
    from reflex.backbones.backbone import Backbone
    from reflex.forward.config import ForwardConfig

NAME = "auto"


@dataclass
class Config:
    """max_label_options: more options than this go to the head, and so do more than `labels` can list at
    once with a label each. labels, head: the two readouts; head null is the one whose weights the run has
    (reflex/readouts/base.py, head_of)."""

    max_label_options: int = 26
    labels: str = "label_tokens"
    head: str | None = None

    def __post_init__(self) -> None:
        if self.max_label_options < 0:
            raise ConfigError(
                f"readout.auto.max_label_options={self.max_label_options}: must not be negative"
            )
        for key, name in (("labels", self.labels), ("head", self.head)):
            if name == NAME:
                raise ConfigError(f"readout.auto.{key}=auto: name a readout that scores options")


class Readout(base.Readout):
    """`parts` are built by the model beside it; `route` picks one of them for each question."""

    name = NAME

    def __init__(
        self, config: Config, backbone: Backbone, style: Any, forward: ForwardConfig
    ) -> None:
        super().__init__(config, backbone, style, forward)
        self.parts = (config.labels, config.head)

    def check(self, built: Mapping[str, base.Readout]) -> None:
        """Raise ConfigError where the part that is to label options has no labels."""
        if not built[self.config.labels].labels_at_once:
            raise ConfigError(
                f"readout.auto.labels={self.config.labels}: lists no labelled options; use label_tokens"
            )

    def route(self, question: Question, built: Mapping[str, base.Readout]) -> tuple[str, str]:
        """(readout, why). `built`: the parts by name, of which `labels` says how many options it can label."""
        count = len(option_keys(question))
        limit, labels = self.config.max_label_options, built[self.config.labels].labels_at_once
        if count <= min(limit, labels):
            return self.config.labels, f"{count} options, each with a single-token label"
        if labels < limit:
            return self.config.head, f"{count} options, {labels} single-token labels"
        return self.config.head, f"{count} options, max_label_options is {limit}"
