package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/proxy/model"
	"quintet.dev/quintet/components/proxy/nft"
)

// Sizes of the tables that kube-proxy is measured with.
const (
	fewServices         = 10
	manyServices        = 5000
	endpointsPerService = 10
)

// proxyTables measures how long kube-proxy takes to write a table, against `nft -f` with the same rules, and to change
// one endpoint in it. It needs root, for network namespaces.
func proxyTables(ctx context.Context, _ Options) ([]Measure, error) {
	few, err := inNamespace(func() (tableTimes, error) { return measureTable(ctx, fewServices) })
	if err != nil {
		return nil, err
	}
	many, err := inNamespace(func() (tableTimes, error) { return measureTable(ctx, manyServices) })
	if err != nil {
		return nil, err
	}
	bare, err := inNamespace(func() (time.Duration, error) { return load(ctx, many.rules) })
	services := fmt.Sprintf("%d Services", manyServices)
	return []Measure{
		{Name: "full sync, " + services, Value: milliseconds(many.whole), Unit: "ms", Limit: milliseconds(bare),
			Against: "nft -f of the same rules, ms", Aim: "≤ 1.5x"},
		{Name: "one endpoint's change, " + services, Value: milliseconds(many.change), Unit: "ms",
			Limit: milliseconds(few.change), Against: fmt.Sprintf("with %d Services, ms", fewServices), Aim: "≤ 1.2x"},
	}, err
}

// inNamespace calls f in a network namespace of its own, which ends with the thread.
func inNamespace[T any](f func() (T, error)) (T, error) {
	var out T
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err != nil {
			err = fmt.Errorf("make a network namespace (is this root?): %w", err)
		} else {
			out, err = f()
		}
		done <- err
	}()
	err := <-done
	return out, err
}

type tableTimes struct {
	whole, change time.Duration
	rules         []byte // as nft lists them
}

func measureTable(ctx context.Context, services int) (tableTimes, error) {
	var times tableTimes
	tables, kernel, err := nft.Open(corev1.IPv4Protocol)
	if err != nil {
		return times, err
	}
	table := nft.New(nft.Config{
		Family: corev1.IPv4Protocol, MasqueradeBit: 14,
		LocalTraffic: "ip saddr 10.244.0.0/16", NotLocalTraffic: "ip saddr != 10.244.0.0/16",
	}, tables, kernel)
	var all []model.ServicePort
	for i := range services {
		all = append(all, servicePort(i, endpointsPerService))
	}
	begin := time.Now()
	if _, err := table.Sync(ctx, all, nil); err != nil {
		return times, err
	}
	times.whole = time.Since(begin)
	times.rules, err = exec.CommandContext(ctx, "nft", "list", "ruleset").Output()
	if err != nil {
		return times, fmt.Errorf("nft list ruleset: %w", err)
	}
	times.change, err = median(21, func(i int) (time.Duration, error) {
		begin := time.Now()
		_, err := table.Sync(ctx, []model.ServicePort{servicePort(services/2, endpointsPerService-1+i%2)}, nil)
		return time.Since(begin), err
	})
	return times, err
}

// servicePort is the i-th of many Services, with its endpoints on some nodes.
func servicePort(i, endpoints int) model.ServicePort {
	p := model.ServicePort{
		Key: model.PortKey{
			NamespacedName: types.NamespacedName{Namespace: "bench", Name: fmt.Sprintf("service-%d", i)}, Port: "http",
			Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol,
		},
		ClusterIP: netip.AddrFrom4([4]byte{10, 96, byte(i / 250), byte(1 + i%250)}), Port: 80, HasAnyEndpoint: true,
	}
	for e := range endpoints {
		n := i*endpointsPerService + e
		p.ClusterEndpoints = append(p.ClusterEndpoints, model.Endpoint{
			IP: netip.AddrFrom4([4]byte{10, byte(128 + n/62500), byte(n / 250 % 250), byte(1 + n%250)}), Port: 8080,
		})
	}
	return p
}

// load has nft load rules from a file, as fast as it goes.
func load(ctx context.Context, rules []byte) (time.Duration, error) {
	file, err := os.CreateTemp("", "quintet-bench-*.nft")
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	_, err = bytes.NewReader(rules).WriteTo(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	begin := time.Now()
	out, err := exec.CommandContext(ctx, "nft", "-f", file.Name()).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("nft -f: %w: %s", err, out)
	}
	return time.Since(begin), nil
}
