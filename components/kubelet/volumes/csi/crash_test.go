package csi

import (
	"os"
	"path/filepath"
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	"quintet.dev/quintet/components/kubelet/volumes"
	"quintet.dev/quintet/internal/durable"
)

// TestTearDownOfWhatACrashLeft: a kubelet that ended between two steps on the disk left directories, and parts of
// records. The next one removes them.
func TestTearDownOfWhatACrashLeft(t *testing.T) {
	part := recordFile + durable.Suffix
	for name, left := range map[string]func(files layout) (directories, parts []string){
		"an empty directory of the pod's volume": func(files layout) (directories, parts []string) {
			return []string{files.published("one", "pv-h")}, nil
		},
		"a part of the record of the pod's volume": func(files layout) (directories, parts []string) {
			return nil, []string{filepath.Join(files.published("one", "pv-h"), part)}
		},
		"a part of the record of a block volume": func(files layout) (directories, parts []string) {
			return []string{filepath.Join(volumes.PodDevices(files.root, "one", pluginName), "pv-h")},
				[]string{filepath.Join(files.deviceRecord("pv-h"), part)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, noAttach())
			makeLeft(t, left, layout{r.Root})
			if err := r.TearDown(t.Context(), "one"); err != nil {
				t.Error(err)
			}
			r.nothingLeft(t)
			if found, _ := filepath.Glob(filepath.Join(layout{r.Root}.devices(), "*")); len(found) > 0 {
				t.Errorf("left over: %q", found)
			}
			expectCalls(t, r.driver)
		})
	}
	for name, left := range map[string]func(files layout) (directories, parts []string){
		"before the volume was staged": func(files layout) (directories, parts []string) {
			return []string{filepath.Join(files.staged(driverName, "h"), "globalmount")}, nil
		},
		"in the record of the staged volume": func(files layout) (directories, parts []string) {
			return []string{filepath.Join(files.staged(driverName, "h"), "globalmount")},
				[]string{filepath.Join(files.staged(driverName, "h"), part)}
		},
		"after the volume was unstaged": func(files layout) (directories, parts []string) {
			return []string{files.staged(driverName, "h")}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, noAttach())
			makeLeft(t, left, layout{r.Root})
			claim := claimed("one", "h")
			of := record{SpecVolID: claim.PV.Name, VolumeHandle: "h", DriverName: driverName}
			if err := of.write((layout{r.Root}).published("one", claim.PV.Name)); err != nil {
				t.Fatal(err)
			}
			if err := r.TearDown(t.Context(), "one"); err != nil {
				t.Error(err)
			}
			r.nothingLeft(t)
			expectCalls(t, r.driver, "unpublish") // it was never staged, or is not any more
		})
	}
}

// TestRestoreWithACutRecord: a record that the crash of a machine cut off hides no other.
func TestRestoreWithACutRecord(t *testing.T) {
	r := newRig(t, storagev1.CSIDriverSpec{})
	files := layout{r.Root}
	of := record{SpecVolID: "pv-h", VolumeHandle: "h", DriverName: driverName, AttachmentID: "a"}
	if err := of.write(files.published("two", "pv-h")); err != nil {
		t.Fatal(err)
	}
	makeLeft(t, func(layout) (directories, parts []string) {
		return nil, []string{filepath.Join(files.published("one", "pv-x"), recordFile)}
	}, files)
	if err := r.Restore(); err == nil {
		t.Error("the record that is cut is not told of")
	}
	if names := r.VolumesInUse(); len(names) != 1 || names[0] != uniqueName(driverName, "h") {
		t.Errorf("in use: %q", names)
	}
}

func makeLeft(t *testing.T, left func(layout) (directories, parts []string), files layout) {
	t.Helper()
	directories, parts := left(files)
	for _, dir := range directories {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range parts {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(`{"dri`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
