"""Makes one candidate: prompts, the model within a budget, direct answers, the tool loop and its monitor, skills. Knows
no suite, no tests and no other candidates."""
