package authn

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
)

// decodeConfig reads an AuthenticationConfiguration
// (https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/#apiserver-k8s-io-v1-AuthenticationConfiguration).
// Fields that it doesn't know are errors.
func decodeConfig(content []byte) (*apiserver.AuthenticationConfiguration, error) {
	if len(content) == 0 {
		return nil, errors.New("empty config data")
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	obj, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), content)
	if err != nil {
		return nil, err
	}
	config, ok := obj.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("expected AuthenticationConfiguration, got %T", obj)
	}
	return config, nil
}

// checkConfig says what is wrong with a configuration. Its issuers may not be those of service accounts.
func checkConfig(config *apiserver.AuthenticationConfiguration, compiler authenticationcel.Compiler,
	accounts []string) error {
	if err := validation.ValidateAuthenticationConfiguration(compiler, config, accounts).ToAggregate(); err != nil {
		return fmt.Errorf("invalid authentication configuration: %w", err)
	}
	return nil
}
