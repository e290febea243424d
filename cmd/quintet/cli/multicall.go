package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	etcd "quintet.dev/quintet/cmd/etcd/cli"
	apiserver "quintet.dev/quintet/cmd/kube-apiserver/cli"
)

// calledAs returns the program that quintet is when its file has that name; nil means quintet itself. Being all of them
// is why `quintet assets` works with nothing but a `go install` of quintet: there is nothing to find, to build or to
// download.
func calledAs(file string) func() int {
	switch filepath.Base(file) {
	case "etcd":
		return etcd.Main
	case "kube-apiserver":
		return runAPIServer
	case "kubectl":
		return runKubectl
	}
	return nil
}

// runAPIServer runs kube-apiserver, with the controllers that a file next to it names.
func runAPIServer() int {
	self, err := os.Executable()
	var names []string
	if err == nil {
		names, err = controllersIn(filepath.Dir(self))
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "kube-apiserver:", err)
		return 1
	case len(names) == 0:
		return apiserver.Main(nil)
	}
	return apiserver.Main(withControllers(names))
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		cmdutil.CheckErr(err) // says it, and ends with its code
	}
	return 0
}
