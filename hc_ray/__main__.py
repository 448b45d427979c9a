"""The command ``hc-ray``, and ``python -m hc_ray``."""

import sys


def main() -> None:
    try:
        from hc_ray.cli.app import main as command
    except KeyboardInterrupt:  # the imports take a moment
        print("hc-ray: interrupted", file=sys.stderr)
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
