package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"quintet.dev/quintet/cluster"
)

// forContainers are the commands for clusters of containers only, with what a Go test calls to the same effect on a
// cluster in its process; "" is nothing. A process answers to no other one but by its API.
var forContainers = map[string]string{
	"pause": "", "resume": "", "stop": "Member.Stop", "start": "Member.Start", "kill": "Member.Kill",
	"restart": "Member.Restart", "logs": "Member.Logs", "export logs": "c.Export",
	"delay": "", "lose": "", "cut": "", "fill-disk": "", "shift-clock": "c.ShiftClock",
	"node list": "c.Nodes", "node add": "c.AddNode", "node remove": "c.RemoveNode",
	"snapshot": "c.Snapshot", "restore": "c.Restore",
	"load": "", "registry push": "", "registry list": "", "join-command": "",
}

// tellContainers has the help of these commands say so.
func tellContainers(root *cobra.Command) {
	for path, inGo := range forContainers {
		cmd, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			panic("no command " + path)
		}
		note := "It is for clusters of containers."
		if inGo != "" {
			note += " In a Go test, " + inGo + " does it to a cluster in process, too."
		}
		cmd.Long = cmp.Or(cmd.Long, cmd.Short+".") + "\n\n" + note
	}
}

// open takes hold of the chosen cluster of containers.
func (a *app) open(cmd *cobra.Command) (*cluster.Cluster, error) {
	return a.openFor(cmd.Context(), strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "))
}

// openFor is open for a command by its path.
func (a *app) openFor(ctx context.Context, command string) (*cluster.Cluster, error) {
	c, err := a.choose(ctx)
	if err != nil {
		return nil, err
	}
	if c.inProcess == nil {
		return cluster.Open(ctx, c.name)
	}
	instead := "start one: quintet up, without --in-process"
	if inGo := forContainers[command]; inGo != "" {
		instead += "; or, in the Go test that starts the cluster, call " + inGo
	}
	return nil, fmt.Errorf("%s is for clusters of containers, and cluster %s runs in a process; %s", command, c.name,
		instead)
}
