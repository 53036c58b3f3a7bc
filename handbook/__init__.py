"""The documentation site, beside `mkdocs.yml` and the pages of `docs`: what is made of the product when it is built."""
