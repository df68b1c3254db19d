"""<< cookiecutter.__description_text >>"""
