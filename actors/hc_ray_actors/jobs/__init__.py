"""The jobs behind commands other than ``sweep``: one trial, a suite, an audit, a regrade, a bench, doctor, learning, a
climb. May import the driver and the actors."""
