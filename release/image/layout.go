/*
Copyright 2026 The Sluice Authors

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package image

import (
	"errors"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Named is an image, for one platform or for several, and the names that it has.
type Named struct {
	Image mutate.Appendable
	Names []string
}

// WriteLayout writes images to a directory in the image layout of the OCI, in place of what was there. containerd
// imports an archive of the directory under the images' names.
func WriteLayout(dir string, images ...Named) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	for _, image := range images {
		for _, name := range image.Names {
			annotations := layout.WithAnnotations(map[string]string{
				"org.opencontainers.image.ref.name": name,
				"io.containerd.image.name":          name,
			})
			switch content := image.Image.(type) {
			case v1.ImageIndex:
				err = path.AppendIndex(content, annotations)
			case v1.Image:
				err = path.AppendImage(content, annotations)
			default:
				err = errors.New("it is neither an image nor an index of images")
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}
