"""What a GPU says about itself while a server runs on it: NVML, a sampler in a process of its own, its files."""
