"""The actors of one sweep: who stands where, what their nodes are sent, and what becomes of one that fails. May import
the plan and the actors."""
