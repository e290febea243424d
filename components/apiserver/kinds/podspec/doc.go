// Package podspec is all that the API knows of pod specs, wherever they stand (pods, templates): defaults, validation,
// and which changes a pod allows. It is pure.
package podspec
