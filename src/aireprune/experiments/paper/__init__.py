"""The paper's tables and figures from our own models, with the paper's figures beside ours."""
