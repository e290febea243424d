package openapi

//go:generate ./generate.sh
