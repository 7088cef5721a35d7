"""Hidden states to scores over a question's options; one readout per file.

A readout module holds a dataclass `Config` (a key of the `readout` config group, named like the module) and
a class `Readout`. Both are found by name, so a new readout is one file. Modules import no torch at the top.
"""
