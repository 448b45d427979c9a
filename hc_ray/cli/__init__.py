"""The command line, one module per group of verbs. A verb parses its flags, builds a config and makes one call; heavy
imports stay inside the verbs. May import everything but ``blind``; nothing imports it."""
