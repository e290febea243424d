// Package persistentvolume binds claims to volumes, asks provisioners for volumes, and reclaims volumes whose claims
// are gone (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#lifecycle-of-a-volume-and-claim).
//
// Decisions are pure: planClaim and planVolume read objects and return what to do. The controller applies it, one
// object at a time, so that no volume is given to two claims; the version of each object guards against what other
// components write meanwhile, such as the scheduler, which binds claims that wait for a pod.
//
// Volumes of external provisioners are deleted by those. What hostPath volumes stand for is left where it is: it is on
// a node, and this controller isn't.
package persistentvolume
