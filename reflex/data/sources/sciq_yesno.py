"""sciq_yesno: is a proposed answer to a question of sciq correct?"""

from __future__ import annotations

from reflex.data.sources import sciq
from reflex.data.sources.recast import recast

SOURCE = recast(sciq.SOURCE)
