"""Runs a backbone over trees of segments and returns hidden states at the read positions.

This room is the only place that calls the model: training, evaluation, calibration and serving all come
through `Forward.run`.
"""
