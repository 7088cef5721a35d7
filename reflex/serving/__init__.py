"""A decider behind HTTP: both doors, cross-request batching, a state cache that survives restarts.

Only this room and `reflex/serve.py` import what the extra `serve` brings; `config` imports none of it.
"""
