// Package apiextensions holds the kind of custom resource definitions: its row, and how they behave when they are
// written. The resources that they define are served by package crd.
package apiextensions

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds is the row alone.
func Kinds() []*api.Kind {
	return []*api.Kind{customResourceDefinitions()}
}
