// Functions without a body, such as those of go:linkname, want a file in assembler in their package.
