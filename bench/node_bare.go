package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"quintet.dev/quintet/cluster"
)

// bareScript starts and ends the containers of pods with Docker's client on a node, with the options that a kubelet
// gives to containers of a pod that asks for nothing.
type bareScript struct {
	node  *cluster.Member
	pause string // image
}

// bareTimes are how long it took to start containers and to end them, and how long processors worked for that.
type bareTimes struct{ start, end, startCPU, endCPU time.Duration }

const (
	bareStart = `docker run --detach --name bare-%[1]s-pause --network quintet-pods --ipc shareable --cpu-shares 2 \
--security-opt no-new-privileges --log-opt max-size=1m %[2]s >/dev/null &&
docker run --detach --name bare-%[1]s --network container:bare-%[1]s-pause --ipc container:bare-%[1]s-pause \
--cpu-shares 2 --no-healthcheck --log-opt max-size=10m --log-opt max-file=5 \
--mount type=bind,source=/etc/hosts,target=/etc/hosts \
--mount type=bind,source=/etc/resolv.conf,target=/etc/resolv.conf ` + testImage + ` serve >/dev/null`
	bareEnd = `docker stop bare-%[1]s >/dev/null && docker kill bare-%[1]s-pause >/dev/null &&
docker rm bare-%[1]s bare-%[1]s-pause >/dev/null`
)

// newBareScript finds the image of the sandboxes on a node that has one.
func newBareScript(ctx context.Context, node *cluster.Member) (bareScript, error) {
	s := bareScript{node: node}
	out, err := s.sh(ctx, `docker ps --filter label=io.kubernetes.docker.type=podsandbox --format '{{.Image}}' | head -1`)
	s.pause = strings.TrimSpace(out)
	if err == nil && s.pause == "" {
		err = fmt.Errorf("no pod runs on the node")
	}
	return s, err
}

// sh runs a script on the node and returns what it wrote.
func (s bareScript) sh(ctx context.Context, script string) (string, error) {
	result, err := s.node.Exec(ctx, []string{"sh", "-c", script}, nil)
	if err == nil && result.Code != 0 {
		err = fmt.Errorf("%s: %s", script, strings.TrimSpace(string(result.Stderr)))
	}
	return string(result.Stdout), err
}

// timed runs a script for each number of a range, several at once, and returns how long that took on the node.
func (s bareScript) timed(ctx context.Context, script string, from, to int) (time.Duration, error) {
	each := fmt.Sprintf(script, "$1", s.pause)
	out, err := s.sh(ctx, fmt.Sprintf(`begin=$(date +%%s%%N) && seq %d %d | xargs -P %d -n 1 sh -c '%s' sh &&
echo $(($(date +%%s%%N) - begin))`, from, to, dockerClients, each))
	if err != nil {
		return 0, err
	}
	var nanoseconds int64
	if _, err := fmt.Sscan(out, &nanoseconds); err != nil {
		return 0, fmt.Errorf("time on the node: %w: %s", err, out)
	}
	return time.Duration(nanoseconds), nil
}

// run starts and ends the containers of the pods with numbers of a range.
func (s bareScript) run(ctx context.Context, from, to int) (t bareTimes, err error) {
	return s.runAll(ctx, from, to, func(context.Context) (time.Duration, error) { return 0, nil })
}

// runAll is run that also tells by how much a clock, such as of the processors' work, goes on.
func (s bareScript) runAll(ctx context.Context, from, to int,
	clock func(context.Context) (time.Duration, error)) (t bareTimes, err error) {
	for _, step := range []struct {
		script    string
		took, cpu *time.Duration
	}{{bareStart, &t.start, &t.startCPU}, {bareEnd, &t.end, &t.endCPU}} {
		before, err := clock(ctx)
		if err != nil {
			return t, err
		}
		if *step.took, err = s.timed(ctx, step.script, from, to); err != nil {
			return t, err
		}
		after, err := clock(ctx)
		if err != nil {
			return t, err
		}
		*step.cpu = after - before
	}
	return t, nil
}

// nodeCPU is how long processors have worked for the node and all that runs on it.
func (r *nodeRig) nodeCPU(ctx context.Context) (time.Duration, error) {
	stats, err := r.docker.ContainerStats(ctx, r.c.Name()+"-"+r.c.Node(1).Name(), client.ContainerStatsOptions{})
	if err != nil {
		return 0, err
	}
	defer stats.Body.Close()
	return totalCPU(stats.Body)
}
