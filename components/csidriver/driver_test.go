package csidriver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/api/resource"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"quintet.dev/quintet/internal/calllog"
)

// A driver that is killed at any point continues: nothing is mounted twice, nothing stays.
func TestSurvivesKills(t *testing.T) {
	for _, c := range []*csi.VolumeCapability{mountable(), mappable()} {
		b := newBench(t)
		id := b.mustCreate("v", "1Mi", c)
		b.mounts.fail = errors.New("killed")
		if err := b.stage(id, c); err == nil && c.GetBlock() == nil {
			t.Error("a mount that failed was acknowledged")
		}
		b.mounts.fail = nil
		for range 2 {
			b.restart()
			expect(t, "stage", b.stage(id, c), codes.OK)
		}
		for range 2 {
			b.restart()
			expect(t, "publish", b.publish(id, "pod", c, nil), codes.OK)
		}
		b.restart()
		expect(t, "unstage while published", b.unstage(id), codes.FailedPrecondition)
		expect(t, "delete while published", b.remove(id), codes.FailedPrecondition)
		b.mounts.at = map[string]string{} // the machine starts again
		b.restart()
		expect(t, "stage again", b.stage(id, c), codes.OK)
		expect(t, "publish again", b.publish(id, "pod", c, nil), codes.OK)
		if b.mounts.at[b.target("pod")] == "" {
			t.Error("the volume isn't mounted after the machine's restart")
		}
		for range 2 {
			b.restart()
			expect(t, "unpublish", b.unpublish(id, "pod"), codes.OK)
			expect(t, "unstage", b.unstage(id), codes.OK)
		}
		expect(t, "delete", b.remove(id), codes.OK)
		if len(b.mounts.at) > 0 || len(b.mounts.loops) > 0 {
			t.Errorf("left behind: %v %v", b.mounts.at, b.mounts.loops)
		}
		if left, _ := os.ReadDir(filepath.Join(b.config.Root, "volumes")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// What was being made when the driver ended is removed; a record that can't be read is kept.
func TestSweep(t *testing.T) {
	b := newBench(t)
	id := b.mustCreate("v", "1Mi", mountable())
	volumes := filepath.Join(b.config.Root, "volumes")
	for name, record := range map[string]string{"half": "", "broken": "{"} {
		if err := os.MkdirAll(filepath.Join(volumes, name, "data"), 0o750); err != nil {
			t.Fatal(err)
		}
		if record != "" {
			if err := os.WriteFile(filepath.Join(volumes, name, recordFile), []byte(record), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.restart()
	entries, _ := os.ReadDir(volumes)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if strings.Join(names, " ") != "broken "+id {
		t.Errorf("after a sweep there are %v", names)
	}
}

func TestEphemeralVolume(t *testing.T) {
	b := newBench(t)
	inline := map[string]string{ephemeralKey: "true", sizeKey: "1Mi"}
	expect(t, "unknown volume", b.publish("csi-1", "pod", mountable(), nil), codes.NotFound)
	expect(t, "a bad size", b.publish("csi-1", "pod", mountable(), map[string]string{ephemeralKey: "true", sizeKey: "x"}),
		codes.InvalidArgument)
	expect(t, "a bad ID", b.publish("../csi-1", "pod", mountable(), inline), codes.InvalidArgument)
	expect(t, "block", b.publish("csi-1", "pod", mappable(), inline), codes.InvalidArgument)
	for range 2 {
		expect(t, "publish", b.publish("csi-1", "pod", mountable(), inline), codes.OK)
		b.restart()
	}
	listed, err := b.controller.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	if err != nil || len(listed.Entries) != 0 {
		t.Errorf("the controller knows %v, %v", listed, err)
	}
	expect(t, "unpublish", b.unpublish("csi-1", "pod"), codes.OK)
	if left, _ := os.ReadDir(filepath.Join(b.config.Root, "volumes")); len(left) > 0 || len(b.mounts.at) > 0 {
		t.Errorf("left behind: %v %v", left, b.mounts.at)
	}
}

func TestCapacityIsShared(t *testing.T) {
	b := newBench(t)
	b.config.Capacity = resource.MustParse("10Mi")
	id := b.mustCreate("a", "6Mi", mountable())
	if _, err := b.create("b", "6Mi", mountable()); err == nil {
		t.Error("12Mi of 10Mi were given away")
	}
	expand := func(size int64) error {
		_, err := b.controller.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: id,
			CapacityRange: &csi.CapacityRange{RequiredBytes: size}})
		return err
	}
	expect(t, "too much", expand(11<<20), codes.OutOfRange)
	expect(t, "all", expand(10<<20), codes.OK)
	free, err := b.controller.GetCapacity(t.Context(), &csi.GetCapacityRequest{})
	if err != nil || free.AvailableCapacity != 0 {
		t.Errorf("free: %v, %v", free, err)
	}
}

func TestAttachLimit(t *testing.T) {
	b := newBench(t)
	b.config.AttachLimit = 1
	attach := func(id, node string) error {
		_, err := b.controller.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: id,
			NodeId: node, VolumeCapability: mountable()})
		return err
	}
	first, second := b.mustCreate("a", "1Mi", mountable()), b.mustCreate("b", "1Mi", mountable())
	expect(t, "another node", attach(first, "node-2"), codes.NotFound)
	expect(t, "the first", attach(first, "node-1"), codes.OK)
	expect(t, "the first again", attach(first, "node-1"), codes.OK)
	expect(t, "the second", attach(second, "node-1"), codes.ResourceExhausted)
	expect(t, "delete the first", b.remove(first), codes.FailedPrecondition)
	_, err := b.controller.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: first})
	expect(t, "detach", err, codes.OK)
	expect(t, "the second then", attach(second, "node-1"), codes.OK)
	info, err := b.node.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	if err != nil || info.MaxVolumesPerNode != 1 {
		t.Errorf("%v, %v", info, err)
	}
}

// A clone and a volume of a snapshot have the data of their moment, with owners and modes.
func TestCopies(t *testing.T) {
	b := newBench(t)
	id := b.mustCreate("a", "1Mi", mountable())
	file := filepath.Join(b.controller.volumes.contents(id), "dir", "file")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("old"), 0o640),
		os.Symlink("file", filepath.Join(filepath.Dir(file), "link"))); err != nil {
		t.Fatal(err)
	}
	taken, err := b.controller.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("new"), 0o640); err != nil {
		t.Fatal(err)
	}
	for want, source := range map[string]*csi.VolumeContentSource{
		"old": {Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{
			SnapshotId: taken.Snapshot.SnapshotId}}},
		"new": {Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id}}},
	} {
		made, err := b.controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "of-" + want,
			VolumeCapabilities: []*csi.VolumeCapability{mountable()}, VolumeContentSource: source})
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(b.controller.volumes.contents(made.Volume.VolumeId), "dir")
		data, err := os.ReadFile(filepath.Join(copied, "link"))
		if err != nil || string(data) != want {
			t.Errorf("%q, %v; want %q", data, err, want)
		}
		if info, err := os.Stat(filepath.Join(copied, "file")); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("mode: %v, %v", info, err)
		}
	}
}

// TestServesAndRegisters: the driver answers at its sockets, and logs calls without secrets.
func TestServesAndRegisters(t *testing.T) {
	config := testConfig(t)
	config.mounts = newFakeMounts()
	config.Registration = filepath.Join(filepath.Dir(config.Endpoint), "registry")
	run(t, config)
	dial := func(path string) *grpc.ClientConn {
		conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	info, err := registerapi.NewRegistrationClient(dial(filepath.Join(config.Registration, Name+"-reg.sock"))).
		GetInfo(t.Context(), &registerapi.InfoRequest{})
	if err != nil || info.Name != Name || info.Endpoint != config.Endpoint || info.Type != registerapi.CSIPlugin {
		t.Errorf("%v, %v", info, err)
	}
	client := csi.NewControllerClient(dial(config.Endpoint))
	_, err = client.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "v",
		Secrets: map[string]string{"k": "hidden"}, VolumeCapabilities: []*csi.VolumeCapability{mountable()}})
	expect(t, "create", err, codes.OK)
	_, err = client.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{})
	expect(t, "delete nothing", err, codes.InvalidArgument)
	calls := readCalls(t, filepath.Join(config.Root, "calls.jsonl"))
	if len(calls) != 2 || calls[0].Method != "CreateVolume" || calls[0].Code != "OK" ||
		calls[1].Code != "InvalidArgument" || calls[1].Error == "" {
		t.Fatalf("%+v", calls)
	}
	if text := string(calls[0].Request); strings.Contains(text, "hidden") || !strings.Contains(text, stripped) ||
		!strings.Contains(text, "SINGLE_NODE_MULTI_WRITER") {
		t.Error(text)
	}
}

func readCalls(t *testing.T, path string) []calllog.Call {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var calls []calllog.Call
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var call calllog.Call
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, call)
	}
	return calls
}

func TestConfigIsChecked(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"--driver-name":       func(c *Config) { c.DriverName = "a/b" },
		"--node-id":           func(c *Config) { c.NodeID = "" },
		"--csi-endpoint":      func(c *Config) { c.Endpoint = "csi.sock" },
		"--root-dir":          func(c *Config) { c.Root = "root" },
		"--capacity":          func(c *Config) { c.Capacity = resource.Quantity{} },
		"--attach-limit":      func(c *Config) { c.AttachLimit = -1 },
		"give --kubeconfig":   func(c *Config) { c.Attach = true },
		"kubeconfig \"none\"": func(c *Config) { c.Resize, c.Kubeconfig = true, "none" },
	} {
		config := testConfig(t)
		change(config)
		if _, err := New(*config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestPages(t *testing.T) {
	all := []int{1, 2, 3}
	for _, test := range []struct {
		token string
		most  int32
		want  int
		next  string
		code  codes.Code
	}{
		{"", 0, 3, "", codes.OK}, {"", 2, 2, "2", codes.OK}, {"2", 2, 1, "", codes.OK}, {"3", 0, 0, "", codes.OK},
		{"4", 0, 0, "", codes.Aborted}, {"x", 0, 0, "", codes.Aborted}, {"", -1, 0, "", codes.InvalidArgument},
	} {
		got, next, err := page(all, test.token, test.most)
		expect(t, test.token, err, test.code)
		if len(got) != test.want || next != test.next {
			t.Errorf("%q, %d: %v, %q", test.token, test.most, got, next)
		}
	}
}

func TestRunEndsWhenSocketsFail(t *testing.T) {
	config := testConfig(t)
	config.mounts = newFakeMounts()
	config.Registration = filepath.Join(config.Root, "file")
	d, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config.Registration, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "--registration-dir") {
		t.Error(err)
	}
}
