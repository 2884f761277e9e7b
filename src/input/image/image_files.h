// Image files with their labels, from a folder or a list, by their number.
#pragma once

#include <memory>
#include <string>

#include "input/files/table.h"
#include "input/image/image.h"

namespace plimsoll::input {

// Both give the fields "x", the image, and "y", an i64; "x" alone where there are no labels.

// JPEG and PNG files at any depth below the sub-folders of `given`, each of which is a class; classes and files are in
// the order of their names. A folder that holds images and no sub-folder gives images without labels. Names that start
// with a dot are passed over. Throws Error(BadData) for a folder or a class without an image.
std::unique_ptr<Table> open_image_folder(const std::string& given, const ImageOptions& options = {});

// Lines of a path and a label, with a tab, a comma or a blank between them; paths are relative to the folder of the
// list. Labels are whole numbers, or names, which are numbered by their order. Throws Error(BadData) naming the row.
std::unique_ptr<Table> open_image_list(const std::string& path, const ImageOptions& options = {});

// By the end of its name: .jpg, .jpeg or .png.
bool is_image_name(const std::string& path);
// Whether an image is among the first entries below a folder: any folder may be asked, however large.
bool holds_images(const std::string& folder);

}  // namespace plimsoll::input
