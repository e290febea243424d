// Package apps holds what the kinds of the apps group need beyond their rows. It is pure.
package apps
