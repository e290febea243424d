package keyring

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Config are credentials by place, as Docker's configuration files have them: "https://registry/v1/",
// "registry:5000/path" or "*.registry".
type Config map[string]runtime.Credential

// fileEntry is a credential as a file has it.
type fileEntry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// UnmarshalJSON implements json.Unmarshaler: an object of places. User and password may be in one field, encoded.
func (c *Config) UnmarshalJSON(data []byte) error {
	var entries map[string]fileEntry
	if err := json.Unmarshal(data, &entries); err != nil {
		return err
	}
	*c = Config{}
	for place, entry := range entries {
		credential := runtime.Credential{Username: entry.Username, Password: entry.Password,
			IdentityToken: entry.IdentityToken, RegistryToken: entry.RegistryToken}
		if entry.Auth != "" {
			user, password, err := decodeAuth(entry.Auth)
			if err != nil {
				return err
			}
			credential.Username, credential.Password = user, password
		}
		(*c)[place] = credential
	}
	return nil
}

func decodeAuth(field string) (user, password string, err error) {
	encoding := base64.RawStdEncoding
	if strings.HasSuffix(strings.TrimSpace(field), "=") {
		encoding = base64.StdEncoding
	}
	decoded, err := encoding.DecodeString(field)
	if err != nil {
		return "", "", err
	}
	user, password, ok := strings.Cut(string(decoded), ":")
	if !ok {
		return "", "", errors.New("unable to parse auth field, must be formatted as base64(username:password)")
	}
	return user, password, nil
}

// configFile is ~/.docker/config.json.
type configFile struct {
	Auths Config `json:"auths"`
}

// FromSecrets makes a ring of the secrets that hold credentials; others are passed over. One that can't be read is an
// error, as with upstream's kubelet.
func FromSecrets(secrets []*v1.Secret) (*Ring, error) {
	ring := &Ring{}
	for _, secret := range secrets {
		config, err := configOf(secret)
		if err != nil {
			return nil, err
		}
		ring.Add(config, Source{Secret: &Coordinates{UID: string(secret.UID), Namespace: secret.Namespace,
			Name: secret.Name}})
	}
	return ring, nil
}

func configOf(secret *v1.Secret) (Config, error) {
	if data := secret.Data[v1.DockerConfigJsonKey]; secret.Type == v1.SecretTypeDockerConfigJson && len(data) > 0 {
		var file configFile
		err := json.Unmarshal(data, &file)
		return file.Auths, err
	}
	if data := secret.Data[v1.DockerConfigKey]; secret.Type == v1.SecretTypeDockercfg && len(data) > 0 {
		var config Config
		err := json.Unmarshal(data, &config)
		return config, err
	}
	return nil, nil
}

// FromFiles makes a ring of the node's own credentials: the first of the files that there is, a config.json.
func FromFiles(paths ...string) (*Ring, error) {
	ring := &Ring{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var file configFile
		if err := json.Unmarshal(data, &file); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		ring.Add(file.Auths, Source{})
		return ring, nil
	}
	return ring, nil
}
