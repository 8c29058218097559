"""`python -m flamectl_operator`."""

from flamectl_operator.entry import main

if __name__ == "__main__":
    main()
