"""Playing policies and measuring them. Import from the modules: `policy` needs torch, the others do not."""
