module ecru-bench-go

go 1.25
