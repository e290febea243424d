// Package framework runs plug-ins of users: those that are written over k8s.io/kube-scheduler/framework, as for
// upstream's scheduler, become plug-ins of this one.
package framework
