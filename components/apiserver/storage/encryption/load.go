package encryption

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/metrics"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/util/feature"
)

// Config says how values are encrypted. The zero value doesn't.
type Config struct {
	File   string // an apiserver.config.k8s.io/v1 EncryptionConfiguration
	Reload bool   // read File again when it has changed
	// Identity names this server to key management services.
	Identity string
	// KMSv1 takes keys from services of the first version of the protocol, too: from then on by all servers of the
	// process, as the library asks one gate for all.
	KMSv1 bool
}

// Check is the health of the key management services.
type Check struct {
	Name  string
	Probe func(*http.Request) error
}

// Keys are what values are encrypted with. They are safe for concurrent use.
type Keys struct {
	config  Config
	ctx     context.Context // of what talks to the key management services of the first configuration
	close   context.CancelFunc
	loaded  *encryptionconfig.EncryptionConfiguration
	dynamic *encryptionconfig.DynamicTransformers // nil without Reload
}

// Load reads the file, and begins to talk to the key management services that it names, until Close.
func Load(config Config) (*Keys, error) {
	if config.File == "" {
		return nil, errors.New("--encryption-provider-config-automatic-reload must be set with --encryption-provider-config")
	}
	if config.KMSv1 {
		if err := feature.DefaultMutableFeatureGate.Set(string(features.KMSv1) + "=true"); err != nil {
			return nil, err
		}
	}
	k := &Keys{config: config}
	k.ctx, k.close = context.WithCancel(context.Background())
	var err error
	if k.loaded, err = encryptionconfig.LoadEncryptionConfig(k.ctx, config.File, config.Reload,
		config.Identity); err != nil {
		k.close()
		return nil, fmt.Errorf("--encryption-provider-config %s: %w", config.File, err)
	}
	metrics.RecordEncryptionConfigLastConfigInfo(config.Identity, k.loaded.EncryptionFileContentHash)
	if config.Reload {
		// With Reload there is one check over all services, even if there are none. Some time after others have come
		// those of now are left.
		k.dynamic = encryptionconfig.NewDynamicTransformers(k.loaded.Transformers, k.loaded.HealthChecks[0], k.close,
			k.loaded.KMSCloseGracePeriod)
	}
	return k, nil
}

// Close ends what talks to key management services. A nil Keys has nothing to close.
func (k *Keys) Close() {
	if k != nil {
		k.close()
	}
}

// Transformers encrypt and decrypt the values of each resource.
func (k *Keys) Transformers() value.ResourceTransformers {
	if k.dynamic != nil {
		return k.dynamic
	}
	return encryptionconfig.StaticTransformers(k.loaded.Transformers)
}

// Checks are those of the key management services. A nil Keys has none.
func (k *Keys) Checks() []Check {
	if k == nil {
		return nil
	}
	if k.dynamic != nil {
		return []Check{{k.dynamic.Name(), k.dynamic.Check}}
	}
	out := make([]Check, len(k.loaded.HealthChecks))
	for i, c := range k.loaded.HealthChecks {
		out[i] = Check{c.Name(), c.Check}
	}
	return out
}

// Run reads the file again when it has changed, if that is wanted, until ctx ends. What is in it comes into use when it
// has no faults and all its services answer. It is called once; a nil Keys has nothing to do.
func (k *Keys) Run(ctx context.Context) error {
	if k == nil || k.dynamic == nil {
		return nil
	}
	controller.NewDynamicEncryptionConfiguration("encryption-provider-config-automatic-reload-controller",
		k.config.File, k.dynamic,
		k.loaded.EncryptionFileContentHash, k.config.Identity).Run(ctx)
	return nil
}
