"""What every unit test may count on: no generated example is judged by how long it took."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
