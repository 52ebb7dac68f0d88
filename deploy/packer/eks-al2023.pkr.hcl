# SPDX-License-Identifier: Apache-2.0
# Copyright The regcred Authors
#
# An image with regcred for EKS nodes on Amazon Linux 2023. Nodes download nothing at
# boot. docs/node-images.md shows other ways to build one.
#
#   packer init . && packer build -var release=dist/regcred_1.2.3_linux_amd64.tar.gz .

packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.3.0"
    }
  }
}

variable "release" {
  type        = string
  description = "Archive of a release of regcred, for this architecture."
}

variable "kubernetes" {
  type    = string
  default = "1.36"
}

source "amazon-ebs" "node" {
  ami_name      = "eks-node-al2023-${var.kubernetes}-regcred-{{timestamp}}"
  instance_type = "t3.small"
  ssh_username  = "ec2-user"
  source_ami_filter {
    owners      = ["amazon"]
    most_recent = true
    filters = {
      name = "amazon-eks-node-al2023-x86_64-standard-${var.kubernetes}-*"
    }
  }
}

build {
  sources = ["source.amazon-ebs.node"]

  provisioner "file" {
    source      = var.release
    destination = "/tmp/regcred.tar.gz"
  }

  # The configuration and the list of images are next to this file.
  provisioner "file" {
    sources     = ["node.yaml", "prepull.list"]
    destination = "/tmp/"
  }

  provisioner "shell" {
    inline_shebang  = "/bin/sh -eu"
    execute_command = "sudo {{ .Path }}"
    inline = [
      "mkdir /tmp/regcred && tar -xzf /tmp/regcred.tar.gz --strip-components=1 -C /tmp/regcred",
      "cd /tmp/regcred && sha256sum -c SHA256SUMS",
      "install -D -m 0644 /tmp/node.yaml /etc/regcred/node.yaml",
      "install -D -m 0644 /tmp/prepull.list /etc/regcred/prepull.list",
      "./regcred install /etc/regcred/node.yaml --plugin static-credential-provider",
      "install -D -m 0755 regcred /usr/local/bin/regcred",
      "install -D -m 0644 deploy/systemd/regcred-prepull.service /etc/systemd/system/regcred-prepull.service",
      "systemctl enable regcred-prepull.service",
      "rm -rf /tmp/regcred /tmp/regcred.tar.gz /tmp/node.yaml /tmp/prepull.list",
    ]
  }
}
