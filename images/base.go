package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/moby/moby/client"
)

const (
	suite      = "trixie"
	debian     = "debian:" + suite + "-slim"
	envMirror  = "DEBIAN_MIRROR"
	bootstrap  = "mmdebstrap"
	pullPeriod = 2 * time.Minute
)

// ensureBase makes the file system of a node without Quintet's programs unless it exists, and returns its reference. It
// is made of Debian's packages: by mmdebstrap where this machine has it, which needs no registry, or else from Debian's
// image, which any engine with a way to Docker Hub can pull.
func (m *making) ensureBase(ctx context.Context) (string, error) {
	dockerfile, err := m.source.read("images/node/Dockerfile")
	if err != nil {
		return "", err
	}
	list, err := m.source.read("images/node/packages")
	if err != nil {
		return "", err
	}
	packages := strings.Fields(string(list))
	sum := sha256.Sum256([]byte(fmt.Sprintln(m.server, string(dockerfile), packages)))
	ref := Prefix() + "/" + baseName + ":" + hex.EncodeToString(sum[:])[:12]
	if has, err := m.Engine.has(ctx, ref); has || err != nil {
		return ref, err
	}
	began := time.Now()
	m.Report(fmt.Sprintf("building image %s of Debian's packages (once; about half a minute)", ref))
	strapped := m.strap(ctx, packages, ref)
	if strapped != nil {
		if pulled := m.fromDebian(ctx, string(dockerfile), packages, ref); pulled != nil {
			return "", fmt.Errorf("no base for the node image.\n%w\n%w\nNext: pull or load %s into the engine, or "+
				"install %s (Debian, Ubuntu: sudo apt-get install %s)", strapped, pulled, debian, bootstrap, bootstrap)
		}
	}
	m.Report(fmt.Sprintf("built image %s … %.0f s", ref, time.Since(began).Seconds()))
	return ref, m.Engine.tag(ctx, ref, Prefix()+"/"+baseName+":"+Latest)
}

// strap makes the base with mmdebstrap and streams it into the engine.
func (m *making) strap(ctx context.Context, packages []string, ref string) error {
	program, err := exec.LookPath(bootstrap)
	switch {
	case err != nil:
		return fmt.Errorf("there is no %s on this machine", bootstrap)
	case runtime.GOOS != m.server.os || runtime.GOARCH != m.server.arch:
		return fmt.Errorf("%s makes file systems of this machine, and the engine is %s/%s", bootstrap, m.server.os,
			m.server.arch)
	}
	args := []string{"--quiet", "--variant=essential", "--include=" + strings.Join(packages, ",")}
	for _, excluded := range []string{"doc", "man", "locale", "info"} {
		args = append(args, "--dpkgopt=path-exclude=/usr/share/"+excluded+"/*")
	}
	args = append(args, "--dpkgopt=path-exclude=/usr/lib/cni/*")
	for _, plugin := range []string{"bridge", "host-local", "loopback"} { // all that pods on containerd need
		args = append(args, "--dpkgopt=path-include=/usr/lib/cni/"+plugin)
	}
	args = append(args, suite, "-")
	if mirror := os.Getenv(envMirror); mirror != "" {
		args = append(args, mirror)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	files, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	whole := &untilExit{reader: files, wait: cmd.Wait}
	err = m.Engine.importTar(ctx, whole, ref, m.labels(baseName))
	if err != nil {
		cancel()
		return fmt.Errorf("%s: %w\n%s", bootstrap, errors.Join(err, whole.end()), said.String())
	}
	return nil
}

// fromDebian makes the base from Debian's image.
func (m *making) fromDebian(ctx context.Context, dockerfile string, packages []string, ref string) error {
	has, err := m.Engine.has(ctx, debian)
	if err != nil {
		return err
	}
	if !has {
		pulling, cancel := context.WithTimeout(ctx, pullPeriod)
		defer cancel()
		m.Report("pulling " + debian)
		pulled, err := m.Engine.Client.ImagePull(pulling, debian, client.ImagePullOptions{})
		if err == nil {
			err = pulled.Wait(pulling)
		}
		if err != nil {
			return fmt.Errorf("%s can't be pulled: %w", debian, err)
		}
	}
	joined := strings.Join(packages, " ")
	return m.Engine.build(ctx, buildContext{dockerfile: dockerfile}, ref, m.labels(baseName),
		map[string]*string{"PACKAGES": &joined})
}
