// Package early paces a program from before most of its packages are initialised. Go initialises packages that are
// ready by their import paths, and this one needs so few that it is ready when much of k8s.io still waits for
// sigs.k8s.io. It holds for the whole process, so that only the main package of a program that calls footprint.Pace may
// import it.
package early

import "quintet.dev/quintet/internal/footprint"

var _ = footprint.Begin()
