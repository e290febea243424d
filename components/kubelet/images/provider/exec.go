package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1"
	api "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"sigs.k8s.io/yaml"
)

// execTimeout bounds one run of a program, as upstream's.
const execTimeout = time.Minute

// run asks a program of dir: the request goes to its standard input, the response comes from its standard output.
func run(ctx context.Context, dir string, p *kubeletconfig.CredentialProvider,
	request api.CredentialProviderRequest) (*api.CredentialProviderResponse, error) {
	request.TypeMeta = metav1.TypeMeta{Kind: "CredentialProviderRequest", APIVersion: p.APIVersion}
	data, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("failed to encode auth request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, execTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(dir, p.Name), p.Args...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(data), &stdout, &stderr
	command.Env = os.Environ()
	command.WaitDelay = time.Second // of a child that keeps its output open
	for _, e := range p.Env {
		command.Env = append(command.Env, e.Name+"="+e.Value)
	}
	err = command.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("error execing credential provider plugin %s for image %s: %w: %s", p.Name, request.Image, err,
			stderr.String())
	}
	return decode(stdout.Bytes(), p.APIVersion)
}

func decode(data []byte, version string) (*api.CredentialProviderResponse, error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(data, &meta); err != nil {
		return nil, errors.New("error reading GVK from response: it is no JSON") // and may be a credential
	}
	if meta.APIVersion != version {
		return nil, fmt.Errorf("apiVersion from credential plugin response did not match expected apiVersion:%s, "+
			"actual apiVersion:%s", version, meta.APIVersion)
	}
	var response api.CredentialProviderResponse
	if err := yaml.UnmarshalStrict(data, &response); err != nil || meta.Kind != "CredentialProviderResponse" {
		return nil, errors.New("error decoding credential provider plugin response from stdout")
	}
	return &response, nil
}
