"""Files of tokens read where they lie: Megatron's pairs, flat files, and files of this library."""
