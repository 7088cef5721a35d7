"""openbookqa_yesno: is a proposed answer to a question of openbookqa correct?"""

from __future__ import annotations

from reflex.data.sources import openbookqa
from reflex.data.sources.recast import recast

SOURCE = recast(openbookqa.SOURCE)
