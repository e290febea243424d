package cluster

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
)

// configDir is where members find their files, by upstream's convention. In process each has a directory of its own.
const configDir = "/etc/kubernetes"

// WithFile gives every member of a component a file, at a path below /etc/kubernetes: a policy of auditing, a
// configuration of encryption, admission, authentication, tracing. An argument of WithArgs or NodeOptions names it by
// the same path in containers and in process, where it is replaced by the path of the member's own directory:
//
//	cluster.WithFile(cluster.APIServer, "/etc/kubernetes/audit.yaml", policy),
//	cluster.WithArgs(cluster.APIServer, "--audit-policy-file=/etc/kubernetes/audit.yaml"),
func WithFile(component Component, file string, content []byte) Option {
	return func(c *config) error {
		if err := known(component); err != nil {
			return err
		}
		name, ok := strings.CutPrefix(file, configDir+"/")
		if !ok || name == "" || path.Clean(file) != file {
			return fmt.Errorf("file %q of %s: want a path below %s", file, component, configDir)
		}
		switch component {
		case DNS, KubeProxy, NetworkPolicy, VolumeProvisioner, Routes:
			return fmt.Errorf("file %q of %s: it has no files of its own; processes of nodes find those of the component %s",
				file, component, Node)
		}
		if c.files[component] == nil {
			c.files[component] = map[string][]byte{}
		}
		c.files[component][name] = bytes.Clone(content)
		return nil
	}
}

// userFiles adds the files of WithFile.
func (f *files) userFiles(component Component, given map[string][]byte) {
	for name, content := range given {
		if _, taken := f.content[name]; taken {
			f.add(name, content, fmt.Errorf("file %s/%s of %s: Quintet writes that file; choose another name", configDir,
				name, component))
		}
		f.add(name, content, nil)
	}
}

// userArgs are the arguments of WithArgs, which name the files of WithFile by the paths that they have in containers.
func (l *layout) userArgs(component Component, member string, args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		flag, value, ok := strings.Cut(arg, "=")
		name, below := strings.CutPrefix(value, configDir+"/")
		if _, given := l.config.files[component][name]; ok && below && given {
			args[i] = flag + "=" + l.files(member)(name)
		}
	}
	return args
}
