"""``python -m hc_ray``: the command line, where no ``hc-ray`` is on the path."""

from hc_ray.cli.app import main

if __name__ == "__main__":
    main()
