"""The actors of one sweep: where they run, what their nodes are sent, and how failed ones are replaced. May import the
plan and the actors."""
