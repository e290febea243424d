package core

import "strings"

// hasDomain reports whether a qualified name has a prefix.
func hasDomain(name string) bool { return strings.Contains(name, "/") }
