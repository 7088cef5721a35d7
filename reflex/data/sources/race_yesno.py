"""race_yesno: is a proposed answer to a question of race correct?"""

from __future__ import annotations

from reflex.data.sources import race
from reflex.data.sources.recast import recast

SOURCE = recast(race.SOURCE)
