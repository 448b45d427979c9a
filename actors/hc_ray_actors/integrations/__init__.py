"""Integrations: the servers, agents and functions that Claude, Harbor and Python programs call. May import the jobs,
the driver and the actors; only the command line and the public modules of `hc_ray` import it."""
