"""Solution quality on problems with known solution, against what people would pick instead."""
