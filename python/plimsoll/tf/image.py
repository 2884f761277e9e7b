"""tf.image."""
from ._absent import absent
from ._image import (ResizeMethod, adjust_brightness, adjust_contrast, adjust_hue, adjust_saturation, central_crop,
                     convert_image_dtype, crop_to_bounding_box, decode_image, decode_jpeg, decode_png, encode_png,
                     flip_left_right, flip_up_down, grayscale_to_rgb, hsv_to_rgb, is_jpeg, pad_to_bounding_box,
                     per_image_standardization, psnr, random_brightness, random_contrast, random_crop,
                     random_flip_left_right, random_flip_up_down, random_hue, random_saturation, resize,
                     resize_with_crop_or_pad, resize_with_pad, rgb_to_grayscale, rgb_to_hsv, rot90, total_variation,
                     transpose)

__getattr__ = absent("tf.image", globals(), {"ssim": "a measure of your own", "non_max_suppression": "NumPy"})
