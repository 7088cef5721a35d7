"""`letters`: `label_tokens` under the name that yes/no readouts go by (`readout.noul=letters | yesno | rating`)."""

from __future__ import annotations

from dataclasses import dataclass

from reflex.readouts import label_tokens

NAME = "letters"


@dataclass
class Config(label_tokens.Config):
    """As `readout.label_tokens`."""


class Readout(label_tokens.Readout):
    """The same scores; yes and no as a lettered pair, in both orders where orders are asked for."""

    name = NAME
