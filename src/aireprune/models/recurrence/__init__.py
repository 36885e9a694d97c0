"""Models step by step: states that are kept between calls, chunks of any size, independent streams."""
