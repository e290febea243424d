// Package core holds what the kinds of the core group need beyond their rows: defaults, validation and the cells of
// their Tables. It is pure and works on typed objects.
package core
