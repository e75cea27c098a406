"""What is free where: nodes, domains and fields over them, and which resource binds."""
