"""What is known of kernels that were compiled or first loaded, each source by itself."""
