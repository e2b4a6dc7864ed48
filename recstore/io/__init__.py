"""The ways in and out: tables of other libraries. Reading files of other formats will stand here too."""
